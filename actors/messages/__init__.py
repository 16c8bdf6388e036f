"""Every message that crosses a mailbox: one module for each mailbox, with the union of what it
takes at its end.

Facts are in the past tense (PendingPodAdded), orders in the imperative (Assume). A message is
frozen; what it carries is either frozen too or handed over with it. An order that wants an answer
carries a `reply`, set exactly once.
"""
