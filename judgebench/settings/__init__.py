"""Settings: dataclasses with the bounds of their fields, and components that a configuration names."""
