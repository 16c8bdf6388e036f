"""Every message that crosses a mailbox: one module for each mailbox, with the union of its messages
at the end.

Facts are in the past tense (PendingPodAdded), orders in the imperative (Assume). A message is
frozen; its contents are either frozen too or handed over with it. An order that wants an answer
carries a `reply`, set exactly once.
"""
