"""Users and their rights.

Unless the server is secure, a request without a certificate, and without a token that this server
made, comes from the administrator, who may do everything, and who may act for others by the
Impersonate headers. Service accounts, users of certificates and users who are acted for have the
rights that the stored roles and bindings give them, and can give away no others.
"""
