"""The entry script of ``streamlit run``: which pages there are, and nothing else."""

import streamlit as st

from dashboard.app import navigation

st.set_page_config(page_title="Kernel performance", page_icon=":material/speed:", layout="wide")
st.navigation([navigation.page(entry.name) for entry in navigation.PAGES], position="top").run()
