//go:build !race

package conv

const slow = false
