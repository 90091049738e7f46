"""Labels of your own: a page on which people give them, and which texts it shows."""
