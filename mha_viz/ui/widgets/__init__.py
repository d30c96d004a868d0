"""Parts of pages: controls, components, figures with their files, messages."""
