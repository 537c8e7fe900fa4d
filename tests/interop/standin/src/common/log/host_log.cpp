// Stand-in for a source of simpler that orchestrations are linked with.
