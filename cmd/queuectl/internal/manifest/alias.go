package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxAliasNodes limits the nodes that all aliases and merge keys of a file expand
// to. Without a limit a file of 1 KB can expand to billions.
const maxAliasNodes = 100_000

// aliasBudget counts the nodes that the aliases of a file expand to, without
// expanding them.
type aliasBudget struct {
	sizes map[*yaml.Node]int // expanded size of each anchored node
	spent int
}

// count returns the expanded size of n. An anchor precedes its aliases in the text,
// so an alias whose anchor has no size yet is inside that anchor.
func (b *aliasBudget) count(n *yaml.Node) (size int, err error) {
	if n.Kind == yaml.AliasNode {
		size, counted := b.sizes[n.Alias]
		if !counted {
			return 0, fmt.Errorf("line %d: the anchor &%s contains itself", n.Line, n.Value)
		}
		if b.spent += size; b.spent > maxAliasNodes {
			return 0, fmt.Errorf("line %d: *%s: the aliases of the file expand to more than %d values", n.Line, n.Value, maxAliasNodes)
		}
		return size, nil
	}
	size = 1
	for _, c := range n.Content {
		below, err := b.count(c)
		if err != nil {
			return 0, err
		}
		size += below
	}
	if n.Anchor != "" {
		if b.sizes == nil {
			b.sizes = map[*yaml.Node]int{}
		}
		b.sizes[n] = size
	}
	return size, nil
}
