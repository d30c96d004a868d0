"""What whoever runs the server decides and watches: limits, and figures of how it does."""
