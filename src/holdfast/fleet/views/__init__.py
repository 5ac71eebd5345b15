"""The JSON form of what the fleet has. One shape for each object on every face."""
