"""Messages: errors, progress, a full server, sentences that sections share."""
