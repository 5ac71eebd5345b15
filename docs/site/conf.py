"""How Sphinx renders the documentation site. `scripts/site.py` runs it."""

project = "Holdfast"
author = "Holdfast maintainers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Holdfast"
html_static_path = ["static"]
html_css_files = ["holdfast.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
# Pages link to headings as GitHub names them.
myst_heading_anchors = 4
# A block without a language is output of a command. A block whose language Pygments does not know, or cannot
# read (SQL with parameters), is shown as text.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "friendly"
pygments_dark_style = "material"

# The papers and inks of the Control Center (`web/src/style/`).
html_theme_options = {
    "light_css_variables": {
        "color-background-primary": "#ffffff",
        "color-background-secondary": "#fafaf7",
        "color-background-border": "#e6e5e1",
        "color-foreground-primary": "#151b1b",
        "color-foreground-secondary": "#464d4e",
        "color-foreground-muted": "#646c6d",
        "color-brand-primary": "#6834cb",
        "color-brand-content": "#6834cb",
        "color-brand-visited": "#6834cb",
        "color-code-background": "#f4f3f0",
        "color-inline-code-background": "#f4f3f0",
    },
    "dark_css_variables": {
        "color-background-primary": "#121717",
        "color-background-secondary": "#0c1010",
        "color-background-border": "#232828",
        "color-foreground-primary": "#edf1f1",
        "color-foreground-secondary": "#b7bdbe",
        "color-foreground-muted": "#919899",
        "color-brand-primary": "#baabff",
        "color-brand-content": "#baabff",
        "color-brand-visited": "#baabff",
        "color-code-background": "#080c0c",
        "color-inline-code-background": "#080c0c",
    },
}
