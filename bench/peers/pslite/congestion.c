// A library to be loaded before others: new TCP sockets get the congestion control that CONGESTION names, so that programs
// without a setting for it can be compared with ones that choose theirs. Accepted connections have their listener's.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
	int fd = (int)syscall(SYS_socket, domain, type, protocol);
	const char *name = getenv("CONGESTION");
	if (fd >= 0 && name && (domain == AF_INET || domain == AF_INET6) && (type & SOCK_STREAM))
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
	return fd;
}
