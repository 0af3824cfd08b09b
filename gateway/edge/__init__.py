"""What happens: sockets, tasks, stores, clocks."""
