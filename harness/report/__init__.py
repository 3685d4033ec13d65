"""The report: one HTML file that is made from records alone and loads nothing.

Charts are SVG; a small script sorts tables, filters, and shows the tooltip of a point. `page.py` assembles the page
from `sections/`, whose charts are made of the parts in `charts/`.
"""
