// Package adapt decides how large the batches of a job are, by what its learning rate is multiplied, and how many replicas pay.
package adapt
