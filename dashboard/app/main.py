"""The entry script of ``streamlit run``: which pages there are, and nothing else."""

import streamlit as st

from dashboard.app.views import overview, trends

st.set_page_config(page_title="Kernel performance", page_icon=":material/speed:", layout="wide")
st.navigation(
    [
        st.Page(
            overview.render,
            title="Overview",
            icon=":material/fact_check:",
            url_path="overview",
            default=True,
        ),
        st.Page(
            trends.render, title="Trends", icon=":material/show_chart:", url_path=trends.URL_PATH
        ),
    ]
).run()
