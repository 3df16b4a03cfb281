// Package plural writes counts for people: 1 worker, 3 workers.
package plural

import "fmt"

// Of is a count and what is counted, whose plural ends in s.
func Of[N ~int | ~int64 | ~uint32 | ~uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
