"""Users and their rights.

Unless the server is secure, a request without a certificate, and without a token that this server
made, comes from the administrator, who may do everything, and who may act for others by the
Impersonate headers. Service accounts and users who
are acted for have the rights that the stored roles and bindings give them. A user who may write
roles is not kept from giving away rights of others.
"""
