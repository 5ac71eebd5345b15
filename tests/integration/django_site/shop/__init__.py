"""An application of the site."""
