"""The app on other people's machines: docs/hosting.md says how."""
