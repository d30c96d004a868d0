"""The server in front of the pages: the requests that it answers, and its end."""
