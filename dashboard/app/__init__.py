"""The Streamlit app: pages over a store, read only."""
