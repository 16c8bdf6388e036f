"""What if: steps of change are tried on a copy of a cluster, and the pending pods decided.

steps, verbs         the steps, and what each verb does
trial                tries one step after another
tried_*              the copy: its documents and its budgets
placement            decides the pending pods
question, conclusion what is asked, and the answer
whatif_endpoint      answers over HTTP; answer_process starts the process that does answer_worker
sweep/               compares fleets
"""
