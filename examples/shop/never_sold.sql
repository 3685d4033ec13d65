-- products that no open or shipped order has
SELECT p.product_id, p.name
FROM products p
WHERE NOT EXISTS (SELECT * FROM lines l WHERE l.product_id = p.product_id)
