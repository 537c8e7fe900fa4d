"""The way to simpler and to hardware: scene tests, replays on simpler's runtime, pytest items, pins and bisection."""
