//go:build !race

package main

// raceDetector says that the test binary has the race detector.
const raceDetector = false
