"""Results of tests and replays, for other programs: JUnit, JSON, SARIF, annotations of GitHub and GitLab."""
