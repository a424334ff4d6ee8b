"""Many ranks of one job: read together, and compared by what they compute."""
