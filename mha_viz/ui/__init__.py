"""The Streamlit front end. The only room that imports streamlit."""
