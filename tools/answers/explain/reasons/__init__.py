"""The reasons of answers for programs: a code each, with its fields.

reason_table        the codes, with the texts that they stand for
cause_search        finds the cause of a text
cause_details       adds what the cluster tells: amounts, taints, constraints
pod_causes          the causes of a pod: by node, in a summary, in a message
recorded_causes     the causes in what a scheduler has recorded
"""
