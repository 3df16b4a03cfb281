package bucket

import "github.com/paragon-train/paragon/internal/files/objects"

// SetRetries sets how often requests of stores that are opened from now on are tried.
func SetRetries(cfg objects.RetryConfig) { retries = cfg }
