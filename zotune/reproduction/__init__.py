"""The paper in one go: every experiment, its claims judged, one page.

``plan`` says which experiments there are and how large, ``measured`` draws what is measured without
minimising, ``pages`` puts all records on one page. ``zotune reproduce`` runs what is not run yet.
"""
