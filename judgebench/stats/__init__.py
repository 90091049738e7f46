"""Statistics of scores and ratings: each study its law and one dictionary of figures, over
`clusters.Clusters`."""
