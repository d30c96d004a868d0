"""The server in front of the pages: which requests it answers, how it ends."""
