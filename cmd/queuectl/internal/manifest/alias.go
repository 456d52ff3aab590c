package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxAliasNodes is the maximum number of nodes after all aliases and merge keys of a
// file are expanded. Without this limit a file of 1 KB can expand to billions of nodes.
const maxAliasNodes = 100_000

// aliasBudget counts the nodes to which the aliases of a file would expand. It does not
// expand them.
type aliasBudget struct {
	sizes map[*yaml.Node]int // expanded size of each anchored node
	spent int
}

// count returns the number of nodes in the expanded n. An anchor precedes its aliases
// in the text. So an alias whose anchor has no size yet is inside that anchor, which is
// an error.
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
