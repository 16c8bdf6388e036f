"""The binding actor: many binding cycles at a time, from a chosen node to a bound pod."""
