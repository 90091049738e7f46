"""Hydra's door to judgebench's studies: Hydra takes sweepers only from the namespace package
`hydra_plugins`."""
