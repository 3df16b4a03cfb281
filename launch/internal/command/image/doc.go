// Package image is `launch image`: it makes a container image of launch and of a worker's program.
//
// launch/internal/image writes the image. This package finds or builds the two programs, and refuses
// those that could not run in it: programs of another platform, or ones that need libraries which
// the image does not have.
package image
