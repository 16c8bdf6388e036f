"""What the commands share: options, feature gates, the end at a signal, and answers as HTML."""
