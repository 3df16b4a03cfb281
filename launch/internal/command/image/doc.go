// Package image is `launch image`: it makes a container image of launch and of a worker's program.
//
// launch/internal/image writes the image. This package finds or builds the two programs, and
// refuses those that could not run in it: programs of another platform, or ones that need libraries
// which the image does not have. Such an image would be made without an error, and fail in every
// pod with a message of the kernel that names neither the program nor the library.
//
// The same files make the same image, bit for bit.
package image
