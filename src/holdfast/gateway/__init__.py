"""The gateway: operations over the use cases, and thin transports over the operations. An internal
package."""
