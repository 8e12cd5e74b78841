"""The entry script of ``streamlit run``: which pages there are, and nothing else."""

import gc

import streamlit as st

from dashboard.app import ahead, data, downloads, draw, navigation, notices, scrolling

_ALLOCATIONS = 20_000  # between two looks at the youngest objects

st.set_page_config(page_title="Kernel performance", page_icon=":material/speed:", layout="wide")
pages = [navigation.page(entry.name) for entry in navigation.PAGES]
if gc.get_freeze_count() == 0:
    # What is loaded by now stays: looking it through takes a tenth of a second, several a page.
    gc.freeze()
    # A page makes thousands of records that live until its end: look for garbage less often.
    gc.set_threshold(_ALLOCATIONS)
with data.one_opening() as opened, draw.remembering() as charts:
    page = st.navigation(pages, position="top")
    scrolling.within_page()
    # Beyond what a page asks at first: a store may go while it is drawn.
    with notices.readable(data.store_address()):
        page.run()
downloads.offer_images(charts)
for source in opened:
    ahead.comparison(source)
