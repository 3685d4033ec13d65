"""The report: one HTML file, from records alone. It loads nothing; charts are drawn here, as SVG, and a small script
sorts, filters, and shows what a point says.

`page.py` puts it together; `charts.py` has what the charts are made of, and each section a file of its own.
"""
