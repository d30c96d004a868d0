"""What pages are made of: controls, components, figures with their files, messages."""
