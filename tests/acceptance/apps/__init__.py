"""Applications that the tests run as processes of their own, and what is needed to steer them."""
