"""An internal package: the built files of the Control Center. Its sources are in `web/` of the repository."""
