-- the labels of the parcels that are on their way
SELECT o.order_id, l.number, l.quantity || ' x ' || p.name || ' (' || coalesce(p.category, 'other') || ')' AS label
FROM orders o JOIN lines l USING (order_id) JOIN products p USING (product_id)
WHERE o.status = 'shipped'
