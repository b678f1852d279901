// Package network is an agent's network namespace and the only way out of it.
//
// Within the namespace there are the loopback device and a tun device with the
// default route. [Enter] makes them, as the namespace's first process, and passes
// the tun device's descriptor to the supervisor over a socket. The supervisor is
// outside: its [Door] terminates every TCP connection and UDP flow from the
// device in its own TCP/IP stack, and makes the same connection from the
// machine's network if a [Policy] permits the destination. A refused one is
// answered as if no one listened.
//
// An address of the machine that the agent may reach (a model on loopback) has a
// listener at the same address within the namespace; a socket belongs to the
// namespace of the process that made it, so the supervisor accepts on it from
// outside. In the other direction the first process makes sockets for the
// supervisor, by which it reaches a server that the agent runs on its loopback.
package network
