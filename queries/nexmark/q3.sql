SELECT name, city, state, auction.id
FROM auction JOIN person ON seller = person.id
WHERE category = 10 AND (state = 'OR' OR state = 'ID' OR state = 'CA')
