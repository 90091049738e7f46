"""The tables, notes and answers of a report, one file a topic; `judgebench.report.layout` puts them
in order."""
