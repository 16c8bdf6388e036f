"""The instruments: kube-scheduler's metrics, measured by the actors and, through records, by the
decision.
"""
